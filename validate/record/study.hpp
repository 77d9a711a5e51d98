// Study lists: which cases are measured. A CSV `op,dtype,shape,cache,clock,data,held_out` (the last four may be left
// out: cold, burst, normal, and whichever side the rule gives); the lists of this project are
// data/studies/{train,heldout,quick,power}.csv.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "validate/record/measurer.hpp"

namespace plumbline {

/// Strict: the first row that is wrong throws BadInput with its line, so does a case that stands there twice.
/// `study` is the file's name without folder and ".csv"; a case's place has no folder either.
std::vector<StudyCase> parse_study(std::string_view csv, const std::string& place);
std::vector<StudyCase> read_study(const std::string& file);

/// data/studies/<name>.csv of the data folder.
std::string study_file(std::string_view name);

/// The cases of these operators, in order; all when `ops` is empty. Throws BadInput for a name that is no operator and
/// when none is left.
std::vector<StudyCase> cases_of_ops(std::vector<StudyCase> cases, const std::vector<std::string>& ops);

/// Throws BadInput that starts with `place` and names the nearest word.
CacheState read_cache_state(std::string_view text, const std::string& place);
DataPattern read_data_pattern(std::string_view text, const std::string& place);
KernelSet read_kernel_set(std::string_view text, const std::string& place);
/// "library", "own", "ideal": the first part of family and band keys.
std::string_view key_of(KernelSet kernels);

/// "gemm bf16 M=16;N=32;K=64, cold burst": one case in a line of text.
std::string case_text(const StudyCase& what);
/// What makes two cases the same one: operator, types, shape, cache, clock and data.
std::string case_key(const StudyCase& what);

/// True when a vendor library has a kernel for the operator that the measurer can run: dense GEMM in bf16 and fp8.
bool has_library_kernel(const Op& op);

}  // namespace plumbline
