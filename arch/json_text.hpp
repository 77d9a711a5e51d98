// JSON's text: what files of Hugging Face hold beside it, keys that stand twice, paths in messages.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Bare NaN, Infinity and -Infinity outside strings become null; a byte-order mark goes. Nesting deeper than 200 levels is
/// refused at `place` (the parser recurses), and so is a byte of zero (the parser would end there).
std::string tame_json(const std::string& text, const std::string& place);

/// Refuses an object of sound JSON that has a key twice, with its path: the parser would keep the last one and say nothing.
void refuse_keys_twice(std::string_view text, const std::string& place);

/// "/memory/bandwidth": `path` and one key more, with the pointer escapes of RFC 6901.
std::string child_path(const std::string& path, std::string_view key);

}  // namespace plumbline
