/*
 * Prints the configuration table of the README, in Markdown.
 */
#include <stdio.h>

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

int main(void)
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
	return fflush(stdout) ? 1 : 0;
}
