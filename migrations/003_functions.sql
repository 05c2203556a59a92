{{ install_snapshot "003_functions" }}
