// Compiled into each program that links the installed plumbline::arch (plumbline-config.cmake): tells the library, before
// main, where the package's data are. It names nothing, so that a program may hold it more than once.
namespace plumbline {
void know_installed_data(const char* folder) noexcept;  // arch/files.hpp
}

namespace {
[[maybe_unused]] const bool known = (plumbline::know_installed_data(PLUMBLINE_INSTALLED_DATA), true);
}
