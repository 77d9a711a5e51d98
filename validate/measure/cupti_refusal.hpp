// What CUPTI's refusals mean. No CUDA in here.
#pragma once

#include <string>

namespace plumbline {

/// One line for a CUPTI error code of activity tracing; `text` is CUPTI's own word for it.
std::string cupti_refusal(int code, const std::string& call, const std::string& text);

}  // namespace plumbline
