// Which measurements may be fitted and which are only reported. The rule stands in data/measurements/README.md and
// here, nowhere else: the tools ask `validate sides`. It was fixed before anything was fitted and must not change, or
// old results would stop meaning anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/error.hpp"

namespace plumbline {

struct StudyCase;
struct StepCase;

/// CRC-32 as zlib and PNG have it (ISO 3309: polynomial 0xEDB88320, reflected).
std::uint32_t crc32(std::string_view text);

/// Why a row is held out, or that it is not.
enum class HeldOut {
  no,
  by_flag,   ///< the list or file that it comes from says so
  by_size,   ///< CRC32 of its shape is a multiple of 5: an unseen size
  by_model,  ///< CRC32 of what names its model is a multiple of 10: an unseen model
  by_gpus,   ///< a collective over 4 GPUs: a count between the trained 2 and 8
  by_run,    ///< CRC32 of a whole model's run or step is even
};
/// "" for a training row; "flag", "size", "model", "gpus", "run".
std::string_view name(HeldOut side);
/// "CRC32 of its shape is a multiple of 5", for messages.
std::string_view rule_of(HeldOut side);

/// The side of an operator's row, by its name and geometry alone: never by the GPU, stack, types, cache or measured
/// scope, so that a shape is on one side everywhere. `shape` is the text "M=16;N=32;K=64" with keys in any order;
/// `append`, `kv` and `page` are no geometry. Operators that this project does not price (`moe`, `attention_fwd_bwd`)
/// have a side too.
HeldOut held_out(std::string_view op, std::string_view shape);

/// One run of a whole model, or one step of it. What does not apply to the phase is 0.
struct ModelRun {
  std::string_view model;  ///< a name under data/models
  std::string_view phase;  ///< "prefill", "decode", "generate", "train"
  std::int64_t gpus = 1, batch = 1, prompt = 0, context = 0, output = 0;
};
/// CRC32 of "model|phase|gpus|batch|prompt|context|output" even: held out. Clock, page and types do not count.
HeldOut held_out(const ModelRun& run);

/// The same of a case and of a step, whose list may have flagged it.
HeldOut held_out(const StudyCase& what);
HeldOut held_out(const StepCase& what);

/// Reads the column or key `held_out` of a list: "yes", "no" or nothing. Throws BadInput that starts with `place`.
bool read_held_out_flag(std::string_view text, const std::string& place);

/// Takes the held-out rows out of `rows` (anything with `held_out` and a place_of) and says of each why: "a.csv:3: held
/// out: CRC32 of its shape is a multiple of 5". Throws BadInput with the first of them when no other row is left: `fit`
/// is the flag that wanted training rows.
template <class Row>
std::vector<std::string> refuse_held_out(std::vector<Row>& rows, const std::string& fit) {
  std::vector<std::string> refused;
  std::erase_if(rows, [&](const Row& row) {
    if (row.held_out == HeldOut::no) return false;
    refused.push_back(place_of(row) + ": held out: " + std::string(rule_of(row.held_out)));
    return true;
  });
  if (rows.empty() && !refused.empty()) {
    throw BadInput(refused.front() + "; " + fit + " expected training rows, found " + std::to_string(refused.size()) +
                   " that are held out");
  }
  return refused;
}

}  // namespace plumbline
