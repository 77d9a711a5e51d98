#include "ops/resolve/joined_matrices.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace plumbline::lowering {
namespace {

constexpr std::array<std::string_view, 11> kJoinedQueries{
    "gpt2", "phi3", "gpt_neox", "gpt_bigcode", "falcon", "bloom", "codegen", "mpt", "persimmon", "dbrx", "modernbert"};
constexpr std::array<std::string_view, 4> kJoinedGate{"phi3", "glm", "glm4", "modernbert"};

template <class Names>
bool is_one_of(const Names& names, const Llm& llm) {
  return std::find(names.begin(), names.end(), llm.model_type) != names.end();
}

}  // namespace

bool joins_queries(const Llm& llm) { return is_one_of(kJoinedQueries, llm); }
bool joins_gate(const Llm& llm) { return is_one_of(kJoinedGate, llm); }

}  // namespace plumbline::lowering
