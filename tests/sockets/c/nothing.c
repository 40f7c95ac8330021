// A library of which only the name matters.
int nothing;
