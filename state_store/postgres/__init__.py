"""The store in a PostgreSQL server, shared by many machines. Nothing here is imported before a url
names one."""
