# The examples of PyTorch and of existing scripts as they are shipped. Whether it can run is found out here, so that a machine without torch has no test that
# is skipped; it has no part in the floors.
set(LONGHAUL_TORCH_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "a Python that has torch, for the test e2e_pytorch")
if(Python3_FOUND AND NOT LONGHAUL_SANITIZE)
  execute_process(COMMAND ${LONGHAUL_TORCH_PYTHON} -c "import torch.distributed as d; assert d.is_available()"
    RESULT_VARIABLE torch_is_missing OUTPUT_QUIET ERROR_QUIET TIMEOUT 120)
  if(torch_is_missing)
    message(STATUS "e2e_pytorch and e2e_existing_scripts are left out: ${LONGHAUL_TORCH_PYTHON} has no torch; -DLONGHAUL_TORCH_PYTHON=... names one that has")
  else()
    longhaul_script_test(e2e_pytorch COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/pytorch_test.py
      $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker PROCESSORS 4 TIMEOUT 1200)
    longhaul_script_test(e2e_existing_scripts COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/existing_scripts_test.py
      $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker PROCESSORS 4 TIMEOUT 1200)
    set_property(TEST e2e_existing_scripts APPEND PROPERTY ENVIRONMENT "LONGHAUL_TORCH_PYTHON=${LONGHAUL_TORCH_PYTHON}")
    set_property(TEST e2e_pytorch APPEND PROPERTY ENVIRONMENT "LONGHAUL_TORCH_PYTHON=${LONGHAUL_TORCH_PYTHON}")
  endif()
endif()
