// With an assembly file in the package the compiler accepts the functions of link_test.go, which have no body here.
