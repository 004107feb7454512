if(Python3_FOUND)
  longhaul_script_test(e2e_detectors COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/detectors_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} loss_that out_of_step beats_and LABELS e2e
    DEPENDS longhaul longhaul-worker longhaul-engine TIMEOUT 240)
  # Needs two cores that nothing else uses.
  longhaul_script_test(e2e_straggler COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/detectors_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} slowed LABELS e2e slow DEPENDS longhaul longhaul-worker longhaul-engine
    PROCESSORS 4 TIMEOUT 900)
endif()
