// Words and numbers of questions, as flags and study files spell them. `flag` stands in front of every message.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/units.hpp"
#include "model/words.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline {

/// A whole number in [least, most]: "4096", "1e6", "8k" and "1M" (1024 and 1024^2, as lengths are called in this field).
/// Throws BadInput naming the flag.
std::int64_t whole_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most = std::int64_t{1} << 40);

/// "700 W" or "700"; "1500 MHz" or "1500".
Watts watts_of(const std::string& flag, const std::string& text);
Hertz megahertz_of(const std::string& flag, const std::string& text);

void set_precision(const std::string& flag, const std::string& text, Workload& workload);
void set_kv_dtype(const std::string& flag, const std::string& text, Workload& workload);
/// "uniform", "power:A", or a file of counts of tokens, one an expert.
ExpertLoad expert_load_of(const std::string& flag, const std::string& text);
/// What the runtime keeps of the memory: "10%", "8GB"; "": the usual share.
Bytes reserve_of(const std::string& text, Bytes capacity);

/// "ring", "ring:ll128" or "ll128": the algorithm of collectives, a protocol of NCCL's, or both. Throws BadInput where the
/// algorithm has no such protocol.
void set_collective(StackChoice& stack, const std::string& flag, const std::string& text);
/// ... as it is written.
std::string collective_text(const StackChoice& stack);

/// What stands in the file that a value names; "" for a value that names none.
std::string named_file_text(const std::string& value);

/// "own|library|ideal", or "own, library or ideal" for a sentence.
template <class E, std::size_t N>
std::string joined_words(const std::array<Word<E>, N>& words, std::string_view between = "|",
                         std::string_view last = "|") {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    if (i > 0) text += i + 1 == N ? last : between;
    text += words[i].text;
  }
  return text;
}

template <class E, std::size_t N>
E chosen_word(const std::string& flag, const std::array<Word<E>, N>& words, const std::string& text) {
  std::vector<std::string> known;
  for (const Word<E>& word : words) {
    if (word.text == text) return word.value;
    known.emplace_back(word.text);
  }
  throw BadInput(flag + ": expected " + joined_words(words, ", ", " or ") + "; found '" + text + "'" +
                 did_you_mean(text, known));
}

}  // namespace plumbline
