// What a GemmCache holds. Internal to the GEMM planner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/stacks/common/gemm_menu.hpp"
#include "model/stacks/cublas/gemm_library.hpp"

namespace plumbline {

namespace gemm {

/// One way to cut the work, and how it is dealt to CTAs.
struct Candidate {
  Seconds bound;
  const Cut* cut = nullptr;
  Deal deal;
};

/// The tiles of a library's kernels for one task, laid over it.
struct LibrarySearch {
  LibraryMenu menu;
  std::array<std::optional<Cut>, kLibraryMenu> cuts;
};

}  // namespace gemm

struct GemmCache::State {
  struct Answer {
    GemmTask task;
    GemmChoice choice;
  };
  static constexpr std::size_t kAnswers = 256, kMenus = 8;
  std::vector<std::unique_ptr<Answer>> answers = std::vector<std::unique_ptr<Answer>>(kAnswers);
  std::vector<gemm::GemmMenu> menus;
  std::size_t oldest_menu = 0;
  std::vector<gemm::Candidate> candidates;
  std::unique_ptr<gemm::LibrarySearch> library;

  State() { menus.reserve(kMenus); }  // menus stay where they are
};

}  // namespace plumbline
