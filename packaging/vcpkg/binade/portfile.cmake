# An overlay port: it builds the source tree that it lies in.
#
#   vcpkg install binade --overlay-ports=packaging/vcpkg --triplet=x64-linux-dynamic
#
# A port in vcpkg's registry needs a published archive instead: replace SOURCE_PATH by vcpkg_from_github() of the release.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
if(NOT EXISTS "${SOURCE_PATH}/binade.h")
  message(FATAL_ERROR "binade: this port builds the source tree that contains it; ${SOURCE_PATH} has no binade.h")
endif()

set(ONNX disabled)
if("onnx" IN_LIST FEATURES)
  set(ONNX enabled)
endif()
vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -Dtests=disabled
    -Dbenchmarks=false
    -Dcuda=disabled
    -Donnx=${ONNX}
    --wrap-mode=nofallback
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES binade-doctor binade-gpt binade-unet AUTO_CLEAN)

# binade-config.cmake finds library and headers from the place where it was installed, lib/cmake/binade. It stays there:
# vcpkg_cmake_config_fixup() would move it to share/binade.
set(VCPKG_POLICY_SKIP_LIB_CMAKE_MERGE_CHECK enabled)
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
