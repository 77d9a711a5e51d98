#include "model/stacks/providers.hpp"

#include <array>

namespace plumbline {

// Each in the .cpp file of its folder that is named provider.cpp.
const Provider& own_provider();
const Provider& portable_provider();  // own
const Provider& cublas_provider();
const Provider& earlier_cublas_provider();  // cublas
const Provider& trtllm_provider();
const Provider& trtllm_plain_provider();  // trtllm
const Provider& trtllm_gen_provider();    // trtllm
const Provider& flash_attention_provider();
const Provider& flash_attention_3_provider();        // flash_attention
const Provider& flash_attention_3_named_provider();  // flash_attention
const Provider& flash_attention_2_provider();        // flash_attention
const Provider& flash_attention_contiguous_provider();
const Provider& flash_attention_1_provider();  // flash_attention
const Provider& efficient_attention_provider();
const Provider& flashinfer_provider();
const Provider& flashinfer_8bit_provider();   // flashinfer
const Provider& triton_attention_provider();  // triton
const Provider& fla_provider();               // fla
const Provider& flashinfer_gdn_provider();    // fla
const Provider& causal_conv1d_provider();     // fla
const Provider& mamba_ssm_provider();         // fla
const Provider& pytorch_provider();
const Provider& trtllm_all_reduce_provider();  // custom_all_reduce
const Provider& vllm_all_reduce_provider();    // custom_all_reduce
const Provider& deepep_provider();
const Provider& deepgemm_provider();
const Provider& nccl_provider();
const Provider& vllm_experts_provider();         // generic
const Provider& vllm_triton_experts_provider();  // generic
const Provider& untuned_experts_provider();      // generic
const Provider& trtllm_blocks_provider();        // generic
const Provider& vllm_blocks_provider();          // generic
const Provider& vllm_scaled_provider();          // cutlass
const Provider& trtllm_products_provider();
const Provider& flashinfer_rows_provider();  // serving_rows
const Provider& vllm_rows_provider();        // serving_rows
const Provider& pytorch_rows_provider();     // serving_rows
const Provider& generic_provider();
const Provider& ideal_provider();

std::span<const Provider* const> providers() {
  static const std::array all{
      &own_provider(),
      &portable_provider(),         //
      &cublas_provider(),           //
      &earlier_cublas_provider(),   //
      &trtllm_provider(),           //
      &trtllm_plain_provider(),     //
      &trtllm_gen_provider(),       //
      &flash_attention_provider(),  //
      &flash_attention_3_provider(),
      &flash_attention_3_named_provider(),
      &flash_attention_2_provider(),
      &flash_attention_contiguous_provider(),
      &flash_attention_1_provider(),
      &efficient_attention_provider(),
      &flashinfer_provider(),  //
      &flashinfer_8bit_provider(),
      &triton_attention_provider(),
      &fla_provider(),             //
      &flashinfer_gdn_provider(),  //
      &causal_conv1d_provider(),   //
      &mamba_ssm_provider(),       //
      &pytorch_provider(),         //
      &trtllm_all_reduce_provider(),
      &vllm_all_reduce_provider(),
      &deepep_provider(),
      &deepgemm_provider(),
      &nccl_provider(),          //
      &vllm_experts_provider(),  //
      &vllm_triton_experts_provider(),
      &untuned_experts_provider(),
      &trtllm_blocks_provider(),
      &vllm_blocks_provider(),
      &vllm_scaled_provider(),
      &trtllm_products_provider(),
      &flashinfer_rows_provider(),
      &vllm_rows_provider(),
      &pytorch_rows_provider(),
      &generic_provider(),  //
      &ideal_provider(),
  };
  return all;
}

const Provider* find_provider(std::string_view name) {
  for (const Provider* each : providers()) {
    if (each->name() == name) return each;
  }
  return nullptr;
}

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const Provider* each : providers()) names.emplace_back(each->name());
  return names;
}

}  // namespace plumbline
