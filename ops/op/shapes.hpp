// All operators: one plain struct each (its own header says what it computes), and the variant of them all. An operator
// is added by a pair of files here and its place in the variant; a row-wise one by a row of the table in rowwise.hpp.
#pragma once

#include <string_view>
#include <variant>

#include "ops/op/attention_decode.hpp"
#include "ops/op/attention_prefill.hpp"
#include "ops/op/causal_conv.hpp"
#include "ops/op/collective.hpp"
#include "ops/op/embedding.hpp"
#include "ops/op/gemm.hpp"
#include "ops/op/gemm_sparse24.hpp"
#include "ops/op/grouped_gemm.hpp"
#include "ops/op/mla_decode.hpp"
#include "ops/op/moe_permute.hpp"
#include "ops/op/recurrence.hpp"
#include "ops/op/rope.hpp"
#include "ops/op/rowwise.hpp"
#include "ops/op/scan.hpp"
#include "ops/op/softmax_topk.hpp"
#include "ops/op/spmv.hpp"
#include "ops/op/topk.hpp"
#include "ops/op/transfer.hpp"

namespace plumbline {

/// The order is that of `predict-model list ops`: the contract's operators first, then ours.
using Op =
    std::variant<Gemm, GroupedGemm, AttentionPrefill, AttentionDecode, MlaDecode, Rowwise, Rope, TopK, SoftmaxTopK,
                 Embedding, Scan, Spmv, GemmSparse24, Recurrence, CausalConv, MoePermute, Collective, Transfer>;

/// The operator's name: "gemm", "rmsnorm", "all_reduce", ...
std::string_view op_name(const Op& op);

}  // namespace plumbline
