// The ops CSV: operators in, predictions out, in order, in constant memory.
//
// A reader cuts the input into blocks of whole records, workers predict blocks side by side, and the blocks leave in
// the order they came. Memory is a few blocks a worker, whatever the length of the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "model/predict.hpp"

namespace plumbline {

/// Up to `most` more bytes of the input; 0 at its end.
using ByteSource = std::function<std::size_t(char* to, std::size_t most)>;
using ByteSink = std::function<void(std::string_view)>;

struct BatchOptions {
  std::string place;  ///< names the input in messages
  int workers = 1;
  std::size_t block_bytes = 1u << 20;   ///< what a worker takes at a time
  std::size_t record_bytes = 4u << 20;  ///< a longer line is a refused row: most likely an unclosed quote
  PredictOptions predict{};             ///< of every row
};

struct BatchOutcome {
  std::int64_t rows = 0;
  std::int64_t refused = 0;       ///< bad or not modelled: the reason stands in the row's `error`
  std::int64_t bugs = 0;          ///< failed inside the model; likewise
  std::int64_t over_cap = 0;      ///< draw more than the power cap at the lowest clock
  std::int64_t by_attention = 0;  ///< run by the provider that --attention names
};

/// Needs a header with `op` and `shape`, and maybe `dtype`, in any place; throws BadInput before anything is written if
/// they are missing. Input fields pass through as they are, then come the columns of kFigureColumns. Blank lines are
/// left out. A malformed line is a refused row. What `source` and `sink` throw is passed on.
BatchOutcome predict_batch(const ByteSource& source, const ByteSink& sink, const Machine& machine,
                           const BatchOptions& options);

}  // namespace plumbline
