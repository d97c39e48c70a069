// For builds with ThreadSanitizer, before the system's header of this name. That header gives maps a
// member more where the sanitizer is on, which libprotobuf, built without it, does not expect.
#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
