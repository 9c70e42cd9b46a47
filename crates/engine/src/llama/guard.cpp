// An exception that leaves C++ for Rust ends the process. llama.cpp throws them where it cannot go on,
// for example when a regular expression of a tokenizer grows too deep.

#include <cstddef>
#include <cstdio>
#include <exception>

// Calls `call(data)`. False if it threw; `reason` then holds what it said.
extern "C" bool tandem_guard(void (*call)(void *), void * data, char * reason, size_t room) {
    try {
        call(data);
        return true;
    } catch (const std::exception & error) {
        std::snprintf(reason, room, "%s", error.what());
    } catch (...) {
        std::snprintf(reason, room, "an exception without words");
    }
    return false;
}
