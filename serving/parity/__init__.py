"""`foreserve parity`: one workload live and in virtual time, and the differences.

run       the same requests three times: live, in virtual time as they arrived live, and as planned
live      a real server, the real load client, and the records of both
replay    the live arrivals, once more in virtual time
schedule  the devices' steps side by side, and the arrivals that slipped a step live
spread    how figures vary when requests come some milliseconds later
figures   the times of each request by client, device and virtual time
verdict   which differences are too large
report    the table, and JSON and CSV
"""
