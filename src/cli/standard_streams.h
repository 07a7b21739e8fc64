// What a program is started with may be missing or go away: its standard descriptors.
#pragma once

namespace xorbit {

// To be called before anything is opened. A standard descriptor that is closed becomes /dev/null: the next file or memory that
// is opened would have its number, and lines would be printed into weights. And a reader that goes away (`| head`) is an error
// of what was written, not the end of the process, which may have an engine paused.
void KeepStandardStreams();

}  // namespace xorbit
