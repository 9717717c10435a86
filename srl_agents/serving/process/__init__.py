"""What a server process needs beside itself: guard, record, requests on this machine."""
