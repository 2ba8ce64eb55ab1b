"""Found by pytest: with it the tests of every folder can `import ranks`."""
