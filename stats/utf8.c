#include "stats/utf8.h"

size_t gp_utf8_length(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf; /* of the second byte */
	size_t need;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		need = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		need = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		need = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0; /* below: overlong */
	else if (s[0] == 0xed)
		high = 0x9f; /* above: surrogates */
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f; /* above: U+10FFFF */
	if (len < need || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return need;
}
