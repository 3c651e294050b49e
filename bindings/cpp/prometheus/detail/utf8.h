/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the application's text to the form that a region accepts: UTF-8 of limited length. */
#ifndef SIDELIGHT_PROMETHEUS_UTF8_H
#define SIDELIGHT_PROMETHEUS_UTF8_H

#include <cstddef>
#include <string>

namespace prometheus
{
namespace detail
{
/* Returns the length of the character at this position (RFC 3629), or 0 if it is malformed. */
inline std::size_t CharacterAt(const std::string &s, std::size_t at)
{
	const auto byte = [&](std::size_t i) {
		return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) : 0u;
	};
	const unsigned int c = byte(0);
	const std::size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

	for (std::size_t i = 1; i < n; i++)
		if ((byte(i) & 0xc0) != 0x80)
			return 0;
	if ((c == 0xe0 && byte(1) < 0xa0) || (c == 0xed && byte(1) > 0x9f) ||
	    (c == 0xf0 && byte(1) < 0x90) || (c == 0xf4 && byte(1) > 0x8f) || c > 0xf4)
		return 0;
	return n;
}

/* Cuts a text after at most this many bytes, between two characters. Malformed bytes become '?'. */
inline std::string CutText(const std::string &s, std::size_t most)
{
	std::string out;

	for (std::size_t at = 0, n; at < s.size(); at += n) {
		const std::size_t good = CharacterAt(s, at);

		n = good ? good : 1;
		if (out.size() + n > most)
			break;
		out += good ? s.substr(at, n) : "?";
	}
	return out;
}
} // namespace detail
} // namespace prometheus

#endif
