// Inside of lowering: parameters tensor by tensor, and the optimizers of eager PyTorch that go through them so.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "ops/lower/parts.hpp"

namespace plumbline::lowering {

/// Of a parameter: rows and columns of a matrix as the source has it, or one row. Experts' matrices lie behind one
/// another in one tensor of three dimensions (transformers 5), whose rows are those of all.
struct TensorShape {
  std::int64_t rows = 0, cols = 0, stacked = 1;
  auto operator<=>(const TensorShape&) const = default;
};

/// The parameters of forward node `i`.
std::vector<TensorShape> tensors_of(const Step& s, int i);

/// How often a segment's parameters are there: once, where layers share them (ALBERT), however often it runs.
inline std::int64_t copies_of(const Llm& llm, const Segment& segment) {
  return llm.main().shared_weights ? 1 : segment.repeat;
}

/// tensor_by_tensor.cpp. Each puts its loop in a segment of its own in place of the open one. Of `params` parameters Muon takes
/// the layers' matrices; how many are left over.
void adafactor_by_tensor(Step& s, const Llm& llm, double params);
void adam_by_tensor(Step& s, const Llm& llm, double params);
void adam_8_bits_by_tensor(Step& s, const Llm& llm, double params);
double muon_by_tensor(Step& s, const Llm& llm, double params);

/// In place of what is open, a segment that runs so many times and whose launches the host issues one by one.
void open_loop(Step& s, std::int64_t times);
/// ... the one that the rest of the update stands in.
void open_update(Step& s);

/// Parameters of the layers by shape. Rows that join others' are of the same number of columns, or of a bias.
std::map<TensorShape, std::int64_t> tensors_of_all_layers(const Step& s, const Llm& llm);
/// Those of the rank, which has so many parameters.
std::map<TensorShape, std::int64_t> tensors_of_rank(const Step& s, const Llm& llm, double params);

/// shared_update.cpp. Muon of matrices that ranks have shares of, of which this one has `params` elements in all; how many are
/// left over. What each rank has updated of tensors that were dealt out, broadcast.
double muon_by_share(Step& s, const Llm& llm, double params);
void broadcast_tensors(Step& s, const Llm& llm, double params);

}  // namespace plumbline::lowering
