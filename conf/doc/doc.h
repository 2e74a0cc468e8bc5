#ifndef GP_CONF_DOC_H
#define GP_CONF_DOC_H

/* Prints what `text` (NULL: nothing set) is read as. */
void gp_doc_json(const char *text);

#endif
