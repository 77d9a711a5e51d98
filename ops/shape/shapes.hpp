// All operators: one plain struct each (its own header says what it computes), and the variant of them all. An operator
// is added by a pair of files here and its place in the variant; a row-wise one by a row of the table in rowwise.hpp.
#pragma once

#include <string_view>
#include <variant>

#include "ops/shape/attention_backward.hpp"
#include "ops/shape/attention_decode.hpp"
#include "ops/shape/attention_prefill.hpp"
#include "ops/shape/causal_conv.hpp"
#include "ops/shape/collective.hpp"
#include "ops/shape/custom.hpp"
#include "ops/shape/embedding.hpp"
#include "ops/shape/embedding_backward.hpp"
#include "ops/shape/gemm.hpp"
#include "ops/shape/gemm_dynamic.hpp"
#include "ops/shape/gemm_sparse24.hpp"
#include "ops/shape/grouped_gemm.hpp"
#include "ops/shape/mla_decode.hpp"
#include "ops/shape/moe.hpp"
#include "ops/shape/moe_permute.hpp"
#include "ops/shape/quantize_dynamic.hpp"
#include "ops/shape/recurrence.hpp"
#include "ops/shape/rope.hpp"
#include "ops/shape/rowwise.hpp"
#include "ops/shape/scan.hpp"
#include "ops/shape/softmax_topk.hpp"
#include "ops/shape/sparsify24.hpp"
#include "ops/shape/spmv.hpp"
#include "ops/shape/topk.hpp"
#include "ops/shape/transfer.hpp"

namespace plumbline {

/// The order is that of `predict-model list ops`: the contract's operators first, then ours.
using Op = std::variant<Gemm, GroupedGemm, AttentionPrefill, AttentionDecode, AttentionBackward, MlaDecode, Rowwise,
                        Rope, TopK, SoftmaxTopK, Embedding, EmbeddingBackward, Scan, Spmv, GemmSparse24, Recurrence,
                        CausalConv, MoePermute, Moe, QuantizeDynamic, GemmDynamic, Sparsify24, Collective,
                        ExpertExchange, Transfer, CustomOp>;

/// The operator's name: "gemm", "rmsnorm", "all_reduce", ...
std::string_view op_name(const Op& op);

}  // namespace plumbline
