# shellcheck shell=bash
# Stands in for Tcl modules 3.2 (`eval $(modulecmd bash load NAME)`): what goes wrong is said on stderr, and the status is
# 0 in any case. There is cuda/12.6, which conflicts with other versions; toolkit, an alias of it; and hidden, which leaves
# no trace in the list of what is loaded.
unset LMOD_VERSION MODULES_CMD
export LOADEDMODULES=${LOADEDMODULES-}
module() {
  local name=$2 error="ModuleCmd_Load.c(213):ERROR"
  case $name in
    cuda | toolkit) name=cuda/12.6 ;;
    hidden) return 0 ;;
  esac
  if [ "$name" != cuda/12.6 ]; then
    echo "$error:105: Unable to locate a modulefile for '$name'" >&2
    return 0
  fi
  case ":$LOADEDMODULES:" in
    *":$name:"*) return 0 ;;
    *:cuda/*)
      echo "$error:150: Module '$name' conflicts with the currently loaded module(s) 'cuda/11'" >&2
      return 0
      ;;
  esac
  export LOADEDMODULES=$LOADEDMODULES${LOADEDMODULES:+:}$name
}
export -f module
