# What CMake's own files of the platform would overwrite if motet.cmake had set it.
set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS FALSE)
