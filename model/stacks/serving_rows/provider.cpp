// Norms, gated units and rotations of serving stacks: FlashInfer's kernels, which TensorRT-LLM's PyTorch backend and SGLang call, and
// vLLM's own.
#include <array>

#include "model/stacks/serving_rows/plan_rows.hpp"

namespace plumbline {
namespace {

using serving_rows::Library;

constexpr auto kFlashNorm = std::to_array<BandClass>({{Variant::usual, "flashinfer_norm"}});
constexpr auto kFlashGated = std::to_array<BandClass>({{Variant::usual, "flashinfer_gated"}});
constexpr auto kFlashRope = std::to_array<BandClass>({{Variant::usual, "flashinfer_rope"}});
constexpr auto kVllmNorm = std::to_array<BandClass>({{Variant::usual, "vllm_norm"}});
constexpr auto kVllmGated = std::to_array<BandClass>({{Variant::usual, "vllm_gated"}});
constexpr auto kVllmRope = std::to_array<BandClass>({{Variant::usual, "vllm_rope"}});

constexpr auto kTorchArgmax = std::to_array<BandClass>({{Variant::usual, "pytorch_argmax"}});
constexpr auto kTorchGather = std::to_array<BandClass>({{Variant::usual, "pytorch_gather"}});

enum RowFamily : std::size_t { kNorm, kGated, kRope, kRowFamilies };

/// What a launch takes at least, and a CTA to begin and end, is work of the front end and of schedulers.
constexpr CarryOver kInCycles{.fixed_in_cycles = true};

constexpr FamilyDeclaration declared(const char* name, const char* op, std::span<const BandClass> classes,
                                     const char* kind) {
  return {.name = name,
          .op = op,
          .required = false,
          .stand_in = "library.rowwise",
          .stand_in_inherits = true,
          .carry = kInCycles,
          .kind = kind,
          .classes = classes};
}

constexpr std::array<FamilyDeclaration, kRowFamilies> kFlashDeclared{
    declared("flashinfer_norm", "rmsnorm", kFlashNorm, "row_statistics"),
    declared("flashinfer_gated", "swiglu", kFlashGated, "stream"),
    declared("flashinfer_rope", "rope", kFlashRope, "stream")};
constexpr std::array<FamilyDeclaration, kRowFamilies> kVllmDeclared{
    declared("vllm_norm", "rmsnorm", kVllmNorm, "row_statistics"),
    declared("vllm_gated", "swiglu", kVllmGated, "stream"), declared("vllm_rope", "rope", kVllmRope, "stream")};

constexpr std::array<FamilyDeclaration, 2> kTorchDeclared{
    declared("pytorch_argmax", "argmax", kTorchArgmax, "row_statistics"),
    declared("pytorch_gather", "embedding", kTorchGather, "stream")};

constexpr std::array<std::string_view, 3> kOps{"rmsnorm", "swiglu", "rope"};

bool answer(const serving_rows::RowLaunch& launch, const char* kernel, std::size_t which, const Question& q,
            Answer& out) {
  const FamilyScalars& family = q.families[which];
  out.sign(family);
  out.launch(kernel, family) = serving_rows::demand_of(launch, q, family);
  return true;
}

class ServingRows final : public Provider {
 public:
  ServingRows(std::string_view name, Library library, std::span<const FamilyDeclaration> families)
      : name_(name), library_(library), families_(families) {}
  std::string_view name() const override { return name_; }
  std::span<const FamilyDeclaration> families() const override { return families_; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* rope = std::get_if<Rope>(&q.op)) {
      if (bits(rope->dtype) != 16) return false;
      return answer(serving_rows::rope_launch(library_, *rope, q.work, q.rates), "rope", kRope, q, out);
    }
    const auto* row = std::get_if<Rowwise>(&q.op);
    if (row == nullptr || bits(row->input) != 16) return false;
    if (row->kind == RowwiseKind::rmsnorm) {
      return answer(serving_rows::rmsnorm_launch(library_, *row, q.work), "norm", kNorm, q, out);
    }
    if (row->kind != RowwiseKind::swiglu) return false;
    return answer(serving_rows::swiglu_launch(library_, *row, q.work), "gated unit", kGated, q, out);
  }

 private:
  std::string_view name_;
  Library library_;
  std::span<const FamilyDeclaration> families_;
};

constexpr std::array<std::string_view, 2> kTorchOps{"argmax", "embedding"};

class TorchRows final : public Provider {
 public:
  std::string_view name() const override { return "pytorch_rows"; }
  std::span<const FamilyDeclaration> families() const override { return kTorchDeclared; }
  std::span<const std::string_view> ops() const override { return kTorchOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* table = std::get_if<Embedding>(&q.op)) {
      serving_rows::RowLaunch gather;
      if (bits(table->dtype) != 16 || !serving_rows::embedding_launch(*table, q.work, gather)) return false;
      return answer(gather, "gather", 1, q, out);
    }
    const auto* row = std::get_if<Rowwise>(&q.op);
    serving_rows::RowLaunch launch;
    if (row == nullptr || row->kind != RowwiseKind::argmax) return false;
    return serving_rows::argmax_launch(*row, q.work, q.rates, launch) && answer(launch, "argmax", 0, q, out);
  }
};

}  // namespace

const Provider& pytorch_rows_provider() {
  static const TorchRows provider;
  return provider;
}

const Provider& flashinfer_rows_provider() {
  static const ServingRows provider("flashinfer_rows", Library::flashinfer, kFlashDeclared);
  return provider;
}

const Provider& vllm_rows_provider() {
  static const ServingRows provider("vllm_rows", Library::vllm, kVllmDeclared);
  return provider;
}

}  // namespace plumbline
