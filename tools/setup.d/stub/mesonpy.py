"""Stands in for the build system of nanoarrow's source distribution while pip downloads it.

pip asks a source distribution for its metadata before it hands it over, and would install Meson, Cython and more (40 s) for
that. We only want the C sources inside. The metadata is in PKG-INFO already, so this gives pip that file.
"""
import email
import os
import shutil


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        info = email.message_from_file(file)
    name = f"{info['Name']}-{info['Version']}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    shutil.copy("PKG-INFO", os.path.join(metadata_directory, name, "METADATA"))
    return name
