/* Named sections; see sections.h. */
#include "stats/sections.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "stats/utf8.h"

struct section {
	char name[GP_SECTION_NAME];
	uint64_t times, ns, since;
};

struct row {
	size_t section;
	int device;
	uint64_t allocated, reserved;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct section sections[GP_SECTIONS];
static size_t num_sections;
static struct row rows[GP_SECTION_ROWS];
static size_t num_rows;
static struct section *open_section;

/* A name that is cut ends with a whole character. */
static void copy_name(char *to, const char *name)
{
	size_t used = 0, left = strnlen(name, (size_t)4 * GP_SECTION_NAME);

	while (left) {
		size_t part = gp_utf8_length(name, left);

		part += !part;
		if (used + part >= GP_SECTION_NAME)
			break;
		memcpy(to + used, name, part);
		used += part;
		name += part;
		left -= part;
	}
	to[used] = '\0';
}

static struct section *find(const char *name)
{
	char copy[GP_SECTION_NAME];

	copy_name(copy, name);
	for (size_t i = 0; i < num_sections; i++)
		if (!strcmp(sections[i].name, copy))
			return &sections[i];
	if (num_sections == GP_SECTIONS)
		return NULL;
	strcpy(sections[num_sections].name, copy);
	return &sections[num_sections++];
}

int gp_sections_enter(const char *name, uint64_t now_ns)
{
	bool wanted = name && *name;

	pthread_mutex_lock(&lock);
	if (open_section)
		open_section->ns += now_ns - open_section->since;
	open_section = wanted ? find(name) : NULL;
	if (open_section) {
		open_section->times++;
		open_section->since = now_ns;
	}
	int rc = wanted && !open_section ? -ENOSPC : 0;

	pthread_mutex_unlock(&lock);
	return rc;
}

static struct row *find_row(size_t section, int device)
{
	for (size_t i = 0; i < num_rows; i++)
		if (rows[i].section == section && rows[i].device == device)
			return &rows[i];
	if (num_rows == GP_SECTION_ROWS)
		return NULL;
	rows[num_rows] = (struct row){.section = section, .device = device};
	return &rows[num_rows++];
}

void gp_sections_note(int device, uint64_t allocated, uint64_t reserved)
{
	struct row *row = NULL;

	pthread_mutex_lock(&lock);
	if (open_section)
		row = find_row((size_t)(open_section - sections), device);
	if (row && allocated > row->allocated)
		row->allocated = allocated;
	if (row && reserved > row->reserved)
		row->reserved = reserved;
	pthread_mutex_unlock(&lock);
}

size_t gp_sections_get(struct gp_section_row *to, uint64_t now_ns)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = num_rows;
	for (size_t i = 0; i < n; i++) {
		const struct section *section = &sections[rows[i].section];
		bool is_open = section == open_section;

		to[i] = (struct gp_section_row){
			.device = rows[i].device,
			.open = is_open,
			.times = section->times,
			.ns = section->ns +
			      (is_open ? now_ns - section->since : 0),
			.allocated = rows[i].allocated,
			.reserved = rows[i].reserved,
		};
		strcpy(to[i].name, section->name);
	}
	pthread_mutex_unlock(&lock);
	return n;
}
