/* Errors of the decoder as errors of GStreamer
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "gstmimierror.h"

#include "mimi.h"

/* What an application can react to: another path, another file, another
 * setting, another machine. */
static void
map_error (const GError *error, GQuark *domain, gint *code)
{
  *domain = error->domain;
  *code = error->code;
  if (error->domain != MIMI_ERROR)
    return;

  switch ((MimiError)error->code) {
    case MIMI_ERROR_NOT_FOUND:
    case MIMI_ERROR_NO_DEVICE:
      *domain = GST_RESOURCE_ERROR;
      *code = GST_RESOURCE_ERROR_NOT_FOUND;
      break;
    case MIMI_ERROR_OPEN_READ:
      *domain = GST_RESOURCE_ERROR;
      *code = GST_RESOURCE_ERROR_OPEN_READ;
      break;
    case MIMI_ERROR_NO_MEMORY:
      *domain = GST_RESOURCE_ERROR;
      *code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
      break;
    case MIMI_ERROR_WRONG_TYPE:
    case MIMI_ERROR_CORRUPT:
    case MIMI_ERROR_TENSOR:
      *domain = GST_STREAM_ERROR;
      *code = GST_STREAM_ERROR_WRONG_TYPE;
      break;
    case MIMI_ERROR_CONFIG:
    case MIMI_ERROR_UNSUPPORTED:
      *domain = GST_LIBRARY_ERROR;
      *code = GST_LIBRARY_ERROR_SETTINGS;
      break;
    case MIMI_ERROR_INPUT:
      *domain = GST_CORE_ERROR;
      *code = GST_CORE_ERROR_NEGOTIATION;
      break;
    case MIMI_ERROR_DEVICE:
    default:
      *domain = GST_LIBRARY_ERROR;
      *code = GST_LIBRARY_ERROR_FAILED;
      break;
  }
}

void
gst_mimi_post_error (GstElement *element, GError *error, const gchar *context)
{
  GQuark domain;
  gint code;

  map_error (error, &domain, &code);
  gst_element_message_full (element, GST_MESSAGE_ERROR, domain, code,
      g_strdup (error->message), g_strdup (context), __FILE__, G_STRFUNC,
      __LINE__);
  g_error_free (error);
}
