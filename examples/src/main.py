# `python3 -m src.main --file_to_run ...` of the document "System Profiler", in this folder: infprof's own entry does it.
from infprof.__main__ import main; main()
