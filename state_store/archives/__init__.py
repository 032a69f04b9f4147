"""Events of past waves in compressed files beside the database, and the table that finds them."""
