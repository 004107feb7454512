// The host's waits for a stream. CUDA's own (cudaStreamSynchronize) do not come back where a GPU has stopped.
#pragma once

#include <cstdint>
#include <string>

struct CUstream_st;

namespace longhaul {

// Until everything that the stream was asked for has ended. An error of CUDA ends the process, and so does the
// deadline: nothing that such a GPU was given could be used again. `of`: whose stream it is.
void wait_until_idle(CUstream_st* stream, std::int64_t deadline_ms, const std::string& of);

}  // namespace longhaul
