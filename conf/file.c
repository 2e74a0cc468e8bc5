/*
 * The text of a settings file: GPUPOOL_CONF=@file.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/file.h"

static int read_all(int fd, char *buf, size_t size, size_t *len)
{
	ssize_t n;

	*len = 0;
	do {
		n = read(fd, buf + *len, size - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*len += (size_t)n;
	} while (n && *len < size);
	return *len < size ? 0 : -EFBIG;
}

int gp_conf_file_open(const char *path, struct gp_conf_file *file)
{
	const size_t size = GP_CONF_MAX_TEXT + 1;
	struct stat status;
	int error = 0, fd;

	/* Not to wait for the writer of a pipe. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		error = -errno;
	else if (S_ISDIR(status.st_mode))
		error = -EISDIR;
	else if (!S_ISREG(status.st_mode))
		error = -ENOTSUP;
	if (!error) {
		file->map = mmap(NULL, size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (file->map == MAP_FAILED)
			error = -ENOMEM;
	}
	if (!error) {
		error = read_all(fd, file->map, size, &file->text.len);
		if (error)
			munmap(file->map, size);
	}
	close(fd);
	if (error)
		return error;
	file->text.at = file->map;
	/* Some editors write a byte order mark. */
	if (file->text.len >= 3 && !memcmp(file->text.at, "\xef\xbb\xbf", 3)) {
		file->text.at += 3;
		file->text.len -= 3;
	}
	return 0;
}

void gp_conf_file_close(struct gp_conf_file *file)
{
	munmap(file->map, GP_CONF_MAX_TEXT + 1);
}
