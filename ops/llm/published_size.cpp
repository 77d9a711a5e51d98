#include "ops/llm/published_size.hpp"

#include <cmath>
#include <vector>

#include "arch/format.hpp"
#include "arch/json_reader.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

constexpr double kFarApart = 0.01;

/// What checkpoints hold beyond the model itself (docs/sources.md: models): modules for multi-token prediction, with or
/// without copies of embedding and head of their own, and a stored head though it is the embedding.
struct Reading {
  const char* beyond;
  Bytes bytes;
};

std::vector<Reading> readings(const Llm& llm) {
  const Bytes plain = published_weights(llm);
  std::vector<Reading> all{{"", plain}};
  const Bytes table = storage(llm.dtype, llm.embedding_params);
  if (llm.tied_embeddings) all.push_back({" with a copy of the embedding as the head", plain + table});
  if (llm.mtp_params > 0) {
    const Bytes modules = storage(llm.quantization.linear, llm.mtp_params);
    all.push_back({" with the modules for multi-token prediction", plain + modules});
    all.push_back(
        {" with the modules for multi-token prediction and their embedding and head", plain + modules + 2.0 * table});
  }
  return all;
}

}  // namespace

Bytes published_weights(const Llm& llm) {
  double wide = llm.embedding_params + llm.head_params, experts = 0;
  for (const StackSpec& stack : llm.stacks) {
    wide += stack.other_params;
    std::vector<double> repeats(stack.kinds.size(), 0);
    for (const int kind : stack.order) repeats[static_cast<std::size_t>(kind)] += 1 / stack.passes;
    for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
      const LayerSpec& layer = stack.kinds[i];
      const double layers = stack.shared_weights ? 1 : repeats[i];
      experts += layers * layer.expert_params;
      wide += layers * d(layer.norms) * d(layer.norm_vectors) * d(stack.hidden);
      if (layer.ffn) wide += layers * d(layer.ffn->experts) * d(stack.hidden);
    }
  }
  return storage(llm.dtype, wide + llm.tower_params) + storage(llm.quantization.experts, experts) +
         storage(llm.quantization.linear, llm.params - wide - experts);
}

void check_published_size(Llm& llm, const std::string& index_json, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(index_json, place);
  const auto metadata = document.root().find_object("metadata");
  const auto total = metadata ? metadata->find("total_size") : std::nullopt;
  if (!total) {
    llm.assumptions.push_back("the checkpoint's index says no 'metadata.total_size': weights are not held against it");
    return;
  }
  const double bytes = total->as_number();
  if (!(bytes >= 1 && bytes < 1e18)) total->fail("expected the bytes of all weights");
  const Bytes published = bytes * units::B;
  const std::vector<Reading> all = readings(llm);
  const Reading* nearest = &all.front();
  for (const Reading& one : all) {
    if (std::abs(one.bytes / published - 1) < std::abs(nearest->bytes / published - 1)) nearest = &one;
  }
  const std::string sizes = "the checkpoint's index says " + format(published) + " of weights, the config was read as ";
  if (std::abs(nearest->bytes / published - 1) <= kFarApart) {
    llm.assumptions.push_back(sizes + format(nearest->bytes) + nearest->beyond);
    return;
  }
  llm.warnings.push_back(sizes + format(all.front().bytes) +
                         ": parts were not understood, or are left out, or stored in another type");
}

}  // namespace plumbline
