"""Runs a controller that is written in Python: what `millrace controller --script=FILE` starts.

The file defines a class Controller, derived from millrace.Controller, whose objects need no
arguments:

    import millrace

    class Controller(millrace.Controller):
        def next(self, worker):
            if worker.outputs.get("accuracy", 0) > 0.99:
                return millrace.Instruction.stop()
            ...
"""
import argparse
import os
import runpy
import sys

import millrace


def main():
    parser = argparse.ArgumentParser(prog="millrace controller", description=__doc__.splitlines()[0])
    parser.add_argument("script")
    for name in ("--topology", "--addresses", "--state", "--key_file", "--authorities"):
        parser.add_argument(name)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    if not os.path.exists(options.script):
        raise millrace.Error(f"{options.script}: No such file or directory")
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    made = runpy.run_path(options.script).get("Controller")
    if not (isinstance(made, type) and issubclass(made, millrace.Controller)):
        raise millrace.Error(f"{options.script}: expected a class Controller, derived from "
                             "millrace.Controller")
    made().run(topology=options.topology, key_file=options.key_file, tls=options.tls,
               addresses=options.addresses.split(",") if options.addresses else [],
               authorities=options.authorities, state_file=options.state)


if __name__ == "__main__":
    try:
        main()
    except millrace.Error as error:
        sys.exit(f"millrace: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
