// TensorRT-LLM's kernels for tensor memory, called by servers of another make (vLLM and SGLang, by way of FlashInfer).
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {

/// Widths as FlashInfer's callers have them: SGLang takes Triton for heads of 192 there, as there is no such kernel.
bool trtllm::serves_tensor_memory(const AttentionPrefill& s, const Rates& m) {
  const bool compiled = s.qk_dim == 64 || s.qk_dim == 128 || s.qk_dim == 256;
  return m.path.kind == TensorPath::Kind::tcgen05 && s.causal && s.qk_dim == s.v_dim && compiled;
}

/// Kernels for tcgen05 are persistent, and their queries lie where the call before left them, so that nothing goes before but
/// the write of the cache; what a call takes is what one of FlashAttention's over pages does in the same server.
AttentionChoice plan_served_prefill(const AttentionPrefill& s, bool appends, const Rates& m,
                                    std::span<const FamilyScalars> families) {
  AttentionChoice c = plan_trtllm_prefill(s, false, m, families);
  c.family = &families[trtllm::kServedPrefill];
  if (appends) write_new_keys(c, s, families[trtllm::kPrepare], m);
  return c;
}

/// The launch that rotates and appends is TensorRT-LLM's own and no part of what FlashInfer calls: its
/// trtllm_batch_decode_with_kv_cache() takes queries and a written cache, and asks for one kernel (flashinfer/decode.py,
/// trtllm_paged_attention_decode). Both servers write the new token before, by a launch of their own, as before a prompt: vLLM's
/// FlashInferImpl.forward() calls reshape_and_cache_flash() (vllm/v1/attention/backends/flashinfer.py), SGLang's
/// TRTLLMHAAttnBackend.forward_decode() set_kv_buffer() (sglang/srt/layers/attention/trtllm_mha_backend.py). Where the cache is of
/// 8 bits queries are too: vLLM quantizes them before it calls attention; SGLang casts them in forward_decode(), or with the write
/// of the cache (_fused_fp8_set_kv_buffer()), so that its unfused cast, a launch more, is not in these times.
AttentionChoice plan_served_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                   const KeyCutting& how) {
  AttentionDecode alone = s;
  alone.append = 0;
  AttentionChoice c = plan_trtllm_decode(alone, m, families, how);
  if (s.append == 1) write_new_token(c, s, families[trtllm::kPrepare], m);
  return c;
}

}  // namespace plumbline
