#include "model/stacks/common/gemm_cache.hpp"

namespace plumbline {

GemmCache::GemmCache() : state_(std::make_unique<State>()) {}
GemmCache::~GemmCache() = default;
GemmCache::GemmCache(GemmCache&&) noexcept = default;
GemmCache& GemmCache::operator=(GemmCache&&) noexcept = default;

void GemmCache::clear() {
  for (auto& answer : state_->answers) {
    if (answer) answer->task = GemmTask{};  // no shape has m = 0
  }
  state_->menus.clear();
  state_->oldest_menu = 0;
}

}  // namespace plumbline
