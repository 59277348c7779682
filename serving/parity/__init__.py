"""`foreserve parity`: does virtual time say what happens live? The same workload in both, and the difference.

run       the same requests three times: live, in virtual time as they arrived live, and as they were planned to
live      a real server, the real load client, and what both wrote down
replay    the arrivals that there were live, once more in virtual time
schedule  the devices' steps side by side, and the arrivals that slipped one live
spread    how far figures go when requests come some milliseconds later
figures   each request as client, device and virtual time see it
verdict   which differences are too large
report    the table, and JSON and CSV
"""
