// One block of the ops CSV: whole records of text -> the same records with predictions behind them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "model/report/ops_batch.hpp"
#include "model/report/ops_batch_row.hpp"

namespace plumbline {

/// What one worker takes: whole records, or the beginning of one line that is too long to be read.
struct InputBlock {
  std::string text;
  std::size_t overlong_line = 0;  ///< its number, from 1; 0: whole records
};

/// Where the columns stand that the model reads.
struct BatchColumns {
  std::size_t op = 0, shape = 0;
  std::optional<std::size_t> dtype;
  std::size_t count = 0;  ///< columns of the header
};

struct BatchHeader {
  BatchColumns columns;
  std::string output;        ///< the header of the output, with its newline
  std::size_t consumed = 0;  ///< bytes of the block before the first row
};

/// Reads the header at the start of `block`. Throws BadInput when it lacks `op` or `shape`, has a column twice that it
/// reads, or has one of a name that is added (kFigureColumns): the output would have two of that name.
BatchHeader read_header(std::string_view block, const std::string& place);

/// Fills `out` with the rows of `block` and their figures; `out`'s storage is reused. A line that is no CSV record (a
/// stray quote, too long) is written as one quoted field with its reason, and costs no other line.
BatchOutcome predict_block(const InputBlock& block, const BatchColumns& columns, RowPredictor& rows, std::string& out);

}  // namespace plumbline
