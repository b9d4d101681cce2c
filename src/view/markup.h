/* Text in HTML and XML: page and figures share it. */
#pragma once

/* What stands for a character between tags and within quotes ("&lt;"); NULL: it stands for itself. */
const char *infp_markup_reference(char c);
