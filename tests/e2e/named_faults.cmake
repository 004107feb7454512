if(Python3_FOUND)
  longhaul_script_test(e2e_named_faults COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/named_faults_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker longhaul-engine
    PROCESSORS 3 TIMEOUT 240)
endif()
