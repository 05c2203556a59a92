-- The database payonce: one role owns the schemas and migrates them, another
-- runs the server and may do no more than call functions.
\getenv owner_password OWNER_PASSWORD
\getenv server_password SERVER_PASSWORD
CREATE ROLE payonce_app NOLOGIN;
CREATE ROLE payonce_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE payonce_server LOGIN PASSWORD :'server_password' IN ROLE payonce_app;
ALTER ROLE payonce_server SET lock_timeout = '5s';
ALTER ROLE payonce_server SET idle_in_transaction_session_timeout = '1min';
CREATE DATABASE payonce OWNER payonce_owner;
\connect payonce
CREATE EXTENSION pg_cron;
GRANT USAGE ON SCHEMA cron TO payonce_owner;
