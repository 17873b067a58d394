"""Check an object that lives in another process: serialization, transport, server and client."""
