# Every scenario that says what is to come out: the command ends with 5 where a published figure or a bar is missed.
file(GLOB scenarios CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/workflows/simulations/*.toml)
foreach(scenario ${scenarios})
  file(STRINGS ${scenario} expected REGEX "^\\[expect\\.")
  if(expected)
    get_filename_component(name ${scenario} NAME_WE)
    longhaul_script_test(e2e_simulate_${name} COMMAND longhaul simulate ${scenario} LABELS e2e DEPENDS longhaul PROCESSORS 3 TIMEOUT 120)
  endif()
endforeach()
