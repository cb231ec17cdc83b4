"""The parts of bench/compare, lowest first; each uses only those named before it.

errors, statistics, elf, machine      know nothing of the others
catalogue                             what is run: rows of workload and arguments
allocators                            what it is run with
noise, measure                        the runs themselves; give an Outcome
summary                               what the samples of an Outcome say
claims                                what is claimed of the whole, and whether it holds
text, files, pictures, markdown       how it is shown
command                               the command line
"""
