/* Symbol tables of files; see symbols.h. */
#define _GNU_SOURCE
#include "stats/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* A table is read in pieces of so many symbols: they lie on the stack, which
 * is the program's, and may be small. */
#define PIECE 128u
#define MOST  (1u << 22)

struct file {
	int fd;
	Elf64_Shdr symbols, strings;
};

/* Read, not mapped: a file that shrinks meanwhile is no SIGBUS. */
static bool read_at(int fd, uint64_t at, void *to, size_t size)
{
	return at < INT64_MAX &&
	       pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

static bool find_tables(struct file *file)
{
	Elf64_Ehdr head;

	if (!read_at(file->fd, 0, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_shentsize != sizeof(Elf64_Shdr))
		return false;
	for (unsigned i = 0; i < head.e_shnum; i++) {
		if (!read_at(file->fd, head.e_shoff + i * sizeof(Elf64_Shdr),
			     &file->symbols, sizeof(file->symbols)))
			return false;
		if (file->symbols.sh_type != SHT_SYMTAB)
			continue;
		return file->symbols.sh_entsize == sizeof(Elf64_Sym) &&
		       file->symbols.sh_link < head.e_shnum &&
		       read_at(file->fd,
			       head.e_shoff + file->symbols.sh_link *
						      sizeof(Elf64_Shdr),
			       &file->strings, sizeof(file->strings));
	}
	return false;
}

static bool is_around(const Elf64_Sym *symbol, uint64_t address)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       symbol->st_shndx != SHN_UNDEF && symbol->st_value <= address &&
	       address - symbol->st_value < symbol->st_size;
}

/* Where the function's name starts among the strings; 0: there is none. */
static uint32_t search(const struct file *file, uint64_t address)
{
	uint64_t count = file->symbols.sh_size / sizeof(Elf64_Sym);
	Elf64_Sym piece[PIECE];

	if (count > MOST)
		count = MOST;
	for (uint64_t at = 0; at < count; at += PIECE) {
		uint64_t n = count - at < PIECE ? count - at : PIECE;

		if (!read_at(file->fd,
			     file->symbols.sh_offset + at * sizeof(Elf64_Sym),
			     piece, n * sizeof(Elf64_Sym)))
			return 0;
		for (uint64_t i = 0; i < n; i++)
			if (is_around(&piece[i], address))
				return piece[i].st_name;
	}
	return 0;
}

void gp_symbol_find(const char *path, uint64_t address, char *name, size_t size)
{
	struct file file = {
		.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
	uint32_t at = 0;
	ssize_t n = 0;

	name[0] = '\0';
	if (file.fd < 0)
		return;
	if (find_tables(&file))
		at = search(&file, address);
	if (at && at < file.strings.sh_size)
		n = pread(file.fd, name, size - 1,
			  (off_t)(file.strings.sh_offset + at));
	name[n > 0 ? n : 0] = '\0';
	close(file.fd);
}
