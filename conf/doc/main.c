/*
 * gpupool-conf: what the scripts and the README know of the settings.
 *
 *   gpupool-conf --json       the table, and what GPUPOOL_CONF is read as
 *   gpupool-conf --markdown   the README's table
 *
 * Exit 0; 1: cannot write; 2: wrong use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/doc/doc.h"
#include "conf/value.h"

/* A bar would end the cell. */
static void put_cell(const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			putchar('\\');
		putchar(*text);
	}
}

static void markdown(void)
{
	struct gp_conf conf;
	char value[256];

	gp_conf_defaults(&conf);
	puts("| key | default | accepted | what it does |");
	puts("|---|---|---|---|");
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const struct gp_conf_option *option = gp_conf_option(i);

		printf("| `%s` | `%s` | ", option->key,
		       gp_conf_value(&conf, i, value, sizeof(value)));
		put_cell(option->accepted);
		fputs(" | ", stdout);
		put_cell(option->help);
		puts(" |");
	}
	fputs("\nAccepted without effect, because PyTorch's allocator knows "
	      "them: ",
	      stdout);
	for (size_t i = 0; i < gp_conf_num_foreign; i++)
		printf("%s`%s`", i ? ", " : "", gp_conf_foreigners[i].key);
	puts(".");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--json")) {
		gp_doc_json(getenv("GPUPOOL_CONF"));
	} else if (argc == 2 && !strcmp(argv[1], "--markdown")) {
		markdown();
	} else {
		fputs("usage: gpupool-conf --json | --markdown\n", stderr);
		return 2;
	}
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
